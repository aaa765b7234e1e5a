"""The server kit: what every HTTP server of Switchgear shares, and who may use it."""
