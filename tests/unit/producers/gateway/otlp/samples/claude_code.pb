
˜
S

service.name
claude_code
2
telemetry.recorded_with
2.1.332 (Claude Code)é
+
 com.anthropic.claude_code.events2.1.332¹	ÀŸ{\oë*
claude_code.tool_decision24

session.id&
$d1915de8-7965-49b8-a411-753cedbfc6672"
anthropic.provider

firstParty2
anthropic.custom_base_url2

event.name
tool_decision2-
event.timestamp
2026-11-26T00:01:59.438Z2
event.sequence23
	prompt.id&
$684a932c-0a4e-4be2-96c0-d8ce3768e4e12
decision
accept2
source
config2
	tool_name
Bash2
tool_use_id	
toolu_02
tool_source	
builtin2c
tool_parametersP
N{"bash_command":"sleep","full_command":"sleep 8; exit 3","description":"Fail"}2
permission_mode	
defaultYÀŸ{\oëì
+
 com.anthropic.claude_code.events2.1.332¼	@¾aoë*
claude_code.tool_result24

session.id&
$d1915de8-7965-49b8-a411-753cedbfc6672"
anthropic.provider

firstParty2
anthropic.custom_base_url2

event.name
tool_result2-
event.timestamp
2026-11-26T00:02:22.029Z2
event.sequence	23
	prompt.id&
$684a932c-0a4e-4be2-96c0-d8ce3768e4e12
	tool_name
Bash2
tool_use_id	
toolu_02
success
false2
duration_ms
224672

error_type

ShellError2
error
Shell command failed2c
tool_parametersP
N{"bash_command":"sleep","full_command":"sleep 8; exit 3","description":"Fail"}Y@¾aoë×
+
 com.anthropic.claude_code.events2.1.332§	@Ý>Àeoë*
claude_code.tool_decision24

session.id&
$d1915de8-7965-49b8-a411-753cedbfc6672"
anthropic.provider

firstParty2
anthropic.custom_base_url2

event.name
tool_decision2-
event.timestamp
2026-11-26T00:02:39.245Z2
event.sequence
23
	prompt.id&
$684a932c-0a4e-4be2-96c0-d8ce3768e4e12
decision
accept2
source
config2
	tool_name

mcp_tool2
tool_use_id	
toolu_12
tool_source
mcp2Q
tool_parameters>
<{"mcp_server_name":"weather","mcp_tool_name":"get_forecast"}2
permission_mode	
defaultY@Ý>Àeoëˆ	
+
 com.anthropic.claude_code.events2.1.332®	€Ð§þgoë*
claude_code.tool_result24

session.id&
$d1915de8-7965-49b8-a411-753cedbfc6672"
anthropic.provider

firstParty2
anthropic.custom_base_url2

event.name
tool_result2-
event.timestamp
2026-11-26T00:02:48.882Z2
event.sequence23
	prompt.id&
$684a932c-0a4e-4be2-96c0-d8ce3768e4e12
	tool_name

mcp_tool2
tool_use_id	
toolu_12
success
true2
duration_ms
91652Q
tool_parameters>
<{"mcp_server_name":"weather","mcp_tool_name":"get_forecast"}2
tool_result_size_bytes
322
mcp_server_scope	
dynamicY€Ð§þgoë§	@üêjoë*
claude_code.tool_decision24

session.id&
$d1915de8-7965-49b8-a411-753cedbfc6672"
anthropic.provider

firstParty2
anthropic.custom_base_url2

event.name
tool_decision2-
event.timestamp
2026-11-26T00:02:57.577Z2
event.sequence23
	prompt.id&
$684a932c-0a4e-4be2-96c0-d8ce3768e4e12
decision
accept2
source
config2
	tool_name

mcp_tool2
tool_use_id	
toolu_22
tool_source
mcp2Q
tool_parameters>
<{"mcp_server_name":"weather","mcp_tool_name":"get_forecast"}2
permission_mode	
defaultY@üêjoë€
+
 com.anthropic.claude_code.events2.1.332Ð	Àþ•vkoë*
claude_code.tool_result24

session.id&
$d1915de8-7965-49b8-a411-753cedbfc6672"
anthropic.provider

firstParty2
anthropic.custom_base_url2

event.name
tool_result2-
event.timestamp
2026-11-26T00:03:03.779Z2
event.sequence23
	prompt.id&
$684a932c-0a4e-4be2-96c0-d8ce3768e4e12
	tool_name

mcp_tool2
tool_use_id	
toolu_22
success
false2
duration_ms
56732 

error_type
McpToolCallError2
error
connection refused2Q
tool_parameters>
<{"mcp_server_name":"weather","mcp_tool_name":"get_forecast"}2
mcp_server_scope	
dynamicYÀþ•vkoë