"""The role that a request to the API needs."""

from switchgear_http.principal import Role
from switchgear_sinks.api.app import role_of
from tests.support.table import table


@table(
    ("method", "path", "role"),
    [
        ("GET", "/v1/tools", Role.READ),
        ("POST", "/v1/sql", Role.READ),
        ("POST", "/v1/policies/replay", Role.READ),
        ("PUT", "/v1/policies/replay", Role.OPERATE),
        ("PUT", "/v1/policies/mail", Role.OPERATE),
        ("POST", "/v1/circuits/mail/commands", Role.OPERATE),
        ("PUT", "/v1/retention", Role.ADMIN),
        ("GET", "/", None),
    ],
)
def test_requests_that_change_something_need_more_than_read(method, path, role):
    assert role_of({"method": method, "path": path}) == role
