-- What `switchgear retention set` was told: the newest line of a tenant, or of the default, is in force.

CREATE TABLE IF NOT EXISTS retention_rules {on_cluster}
(
    tenant String COMMENT 'Whose rows; the default for all others where is_default is true',
    is_default Bool COMMENT 'The rule is for every tenant without one of its own',
    days UInt16 COMMENT 'How long rows are kept after they arrived; 0: the rule was taken back',
    set_at DateTime64(6, 'UTC') DEFAULT now64(6) COMMENT 'When it was set'
)
ENGINE = {merge_tree}
ORDER BY (is_default, tenant, set_at)
COMMENT 'How long rows of tool_metrics and tool_errors are kept, as set by command';
