"""Who may use an HTTP server of Switchgear: tokens, roles, limits and the addresses that it listens on."""
