"""Adapters for agent frameworks, one module each. Each needs the extra of its framework: ``pip install "switchgear[langchain]"``."""
