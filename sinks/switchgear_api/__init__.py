"""The HTTP API of the sink: what is stored, for the command line, dashboards and the console, and what operators command.

Import what you need from its module. This file imports nothing, because each SQL query starts a process that imports a part of the package.
"""
