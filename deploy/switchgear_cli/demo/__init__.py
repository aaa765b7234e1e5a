"""Demo traffic: a small agent fleet on the real SDK. Every event is marked as the demo's."""
