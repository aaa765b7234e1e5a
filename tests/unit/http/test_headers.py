from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from switchgear_http.headers import takes_gzip


@pytest.mark.parametrize(
    ("given", "takes"),
    [
        ("gzip", True),
        ("br, GZIP;q=0.5", True),
        ("gzip; q=0", False),
        ("br, gzip;q=0.00", False),
        ("x-gzipped", False),
        ("", False),
    ],
)
def test_a_client_takes_gzip_if_it_says_so_and_gives_it_some_weight(given: str, takes: bool) -> None:
    assert takes_gzip(Headers({"accept-encoding": given})) is takes
