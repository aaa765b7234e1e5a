
U
S

service.name
claude_code
2
telemetry.recorded_with
2.1.332 (Claude Code)