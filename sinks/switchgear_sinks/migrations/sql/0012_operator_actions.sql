-- What operators did through the HTTP API: who, when, from where, why, and how to undo it.

CREATE TABLE IF NOT EXISTS operator_actions {on_cluster}
(
    audit_id UUID COMMENT 'Identity of the action',
    at DateTime64(6, 'UTC') COMMENT 'When it was asked for, by the clock of the API',
    stage UInt8 COMMENT '0: asked for, before anything was sent; 1: with its outcome. The row with the highest stage counts',
    actor String COMMENT 'Who: the name of the token, or the subject of the login',
    address String COMMENT 'The address that the request came from',
    action LowCardinality(String) COMMENT 'The command, such as force_open, set_policy or retry_dead_letter',
    subject String COMMENT 'The circuit, the tool or glob of a policy, or the dead letter',
    reason String COMMENT 'The reason that the operator gave',
    outcome LowCardinality(String) COMMENT 'asked, applied, unchanged, sent, unconfirmed, refused or failed',
    detail String COMMENT 'More about the outcome',
    before String COMMENT 'State before, as JSON text',
    after String COMMENT 'State after, as JSON text',
    undo String COMMENT 'The commands that undo it, as JSON text; empty if it cannot be undone',
    undo_of String COMMENT 'The audit_id of the action that this one undoes; empty if none',
    expires_at Nullable(DateTime64(6, 'UTC')) COMMENT 'When it ends by itself',
    CONSTRAINT actor_is_not_empty CHECK actor != ''
)
ENGINE = {merge_tree}
PARTITION BY toYear(at)
ORDER BY (at, audit_id, stage)
SETTINGS {deduplication}
COMMENT 'Actions of operators through the HTTP API, up to two rows each. They are kept without a limit.';
