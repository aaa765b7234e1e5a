"""Errors as answers: a status that fits, a sentence, the way out."""

import json
import uuid
from datetime import UTC, datetime

from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError

from switchgear.policies import PolicyError
from switchgear_api.answers import BadRequestError, BusyError, NotFoundError, json_answer, problem_of
from switchgear_api.readonly import SqlFailedError, SqlLimitError, SqlRefusedError
from switchgear_http.problem import ProblemError
from switchgear_schemas.errors import StoreUnavailableError, SwitchgearError
from tests.support.table import table


@table(
    ("error", "status", "word"),
    [
        (BadRequestError("limit must be 1"), 400, "limit"),
        (SqlFailedError("no column x"), 400, "column"),
        (SqlRefusedError("no"), 403, "no"),
        (NotFoundError("no tool"), 404, "tool"),
        (SqlLimitError("too long"), 422, "long"),
        (BusyError("busy"), 503, "busy"),
        (PolicyError("p.toml: unknown key"), 503, "p.toml"),
        (StoreUnavailableError("closed"), 503, "closed"),
        (SwitchgearError("other"), 500, "other"),
        (TimeoutError(), 504, "in time"),
        (OSError("refused"), 503, "refused"),
        (DatabaseError("Code: 60. DB::Exception: Unknown table. (UNKNOWN_TABLE)", code=60), 503, "tables do not exist"),
        (OperationalError("Code: 241. DB::Exception: memory", code=241), 503, "memory"),
    ],
)
def test_each_error_has_its_status_and_sentence(error, status, word):
    answer = problem_of(error)
    content = json.loads(answer.body)
    assert answer.status == status
    assert word in content["error"]
    assert set(content) == {"type", "title", "status", "detail", "error", "hint"}
    assert content["detail"] == content["error"]


def test_error_answer_has_the_hint():
    assert json.loads(problem_of(NotFoundError("no", hint="look there")).body)["hint"] == "look there"


def test_a_defect_has_no_answer_of_its_own_and_the_answer_of_the_server_gets_the_same_members():
    assert problem_of(ZeroDivisionError("secret")) is None
    content = json.loads(problem_of(ProblemError(500, "The request failed.")).body)
    assert set(content) == {"type", "title", "status", "detail", "error", "hint"}


def test_json_has_times_ids_and_no_nan():
    moment = datetime(2026, 3, 1, tzinfo=UTC)
    answer = json_answer({"at": moment, "id": uuid.UUID(int=1), "nan": float("nan"), "big": 2**63})
    assert json.loads(answer.body) == {
        "at": "2026-03-01T00:00:00Z",
        "id": str(uuid.UUID(int=1)),
        "nan": None,
        "big": 2**63,
    }
