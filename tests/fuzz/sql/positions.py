"""Where in a query a name can stand: ClickHouse's grammar, as templates."""

from __future__ import annotations

from typing import Final


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line for line in text.strip().splitlines() if line)


EXPRESSIONS: Final = _lines("""
SELECT @
SELECT 1 AS a, @ AS b
SELECT @ AS `a, function_name: plus`
SELECT * REPLACE (@ AS x) FROM (SELECT 'b' AS x)
SELECT * EXCEPT (y) REPLACE (@ AS x) FROM (SELECT 'b' AS x, 1 AS y)
SELECT COLUMNS('x') REPLACE (@ AS x) FROM (SELECT 'b' AS x)
SELECT t.* REPLACE (@ AS x) FROM (SELECT 'b' AS x) AS t
SELECT * APPLY(x -> @) FROM (SELECT 'b' AS x)
SELECT * APPLY(quantile(@)) FROM (SELECT 1 AS x)
SELECT COLUMNS('x') APPLY(x -> @) FROM (SELECT 'b' AS x)
SELECT arrayMap(x -> @, [1])
SELECT arrayFilter((x, y) -> @, [1], [2])
SELECT arrayFold((a, x) -> @, [1], '')
SELECT arrayMap(x -> arrayMap(y -> @, [x]), [1])
SELECT arrayMap(lambda(tuple(x), @), [1])
SELECT mapApply((k, v) -> (k, @), map('a', 1))
WITH x -> @ AS f SELECT f(1)
WITH @ AS x SELECT x
WITH (SELECT @) AS x SELECT x
WITH x AS (SELECT @ AS s) SELECT 1
WITH x AS (SELECT @ AS s) SELECT * FROM x
WITH x AS MATERIALIZED (SELECT @ AS s) SELECT * FROM x
WITH RECURSIVE x AS (SELECT '' AS n UNION ALL SELECT toString(@) FROM x) SELECT * FROM x LIMIT 2
WITH RECURSIVE x AS (SELECT toString(@) AS n UNION ALL SELECT n FROM x) SELECT * FROM x LIMIT 2
SELECT 1 FROM numbers(@)
SELECT 1 FROM zeros(length(toString(@)))
SELECT 1 FROM generateSeries(1, @)
SELECT 1 FROM numbers((SELECT @))
SELECT * FROM values('a String', (@))
SELECT * FROM values((@, 1), (2, 3))
SELECT * FROM (VALUES (@)) AS t
SELECT 1 FROM numbers(1) WHERE @ = 'a'
SELECT 1 FROM numbers(1) WHERE @
SELECT tool_name FROM tool_metrics PREWHERE @ != ''
SELECT tool_name FROM tool_metrics WHERE user_id = @
SELECT tool_name FROM tool_metrics WHERE user_id IN (@, 'b')
SELECT 1 FROM numbers(1) GROUP BY @
SELECT 1 FROM numbers(1) GROUP BY ROLLUP (@)
SELECT 1 FROM numbers(1) GROUP BY CUBE (@)
SELECT 1 FROM numbers(1) GROUP BY GROUPING SETS ((1), (@))
SELECT any(@) FROM numbers(1) GROUP BY 1 WITH TOTALS HAVING @ != ''
SELECT count() FROM numbers(1) HAVING @ != ''
SELECT 1 FROM numbers(1) QUALIFY @ != ''
SELECT 1 FROM numbers(1) ORDER BY @
SELECT number FROM numbers(1) ORDER BY number WITH FILL FROM @ TO 3 STEP 1
SELECT number FROM numbers(1) ORDER BY number WITH FILL FROM 1 TO @
SELECT number FROM numbers(1) ORDER BY number WITH FILL STEP @
SELECT number FROM numbers(1) ORDER BY number WITH FILL STALENESS @
SELECT number AS n, '' AS x FROM numbers(1) ORDER BY n WITH FILL TO 3 INTERPOLATE (x AS @)
SELECT 1 FROM numbers(1) LIMIT @
SELECT 1 FROM numbers(1) LIMIT 1 OFFSET @
SELECT 1 FROM numbers(1) ORDER BY 1 OFFSET @ ROWS FETCH FIRST 1 ROWS ONLY
SELECT 1 FROM numbers(1) LIMIT @ BY 1
SELECT 1 FROM numbers(1) LIMIT 1 BY @
SELECT 1 FROM numbers(1) LIMIT 1 OFFSET @ BY 1
SELECT DISTINCT ON (@) 1 FROM numbers(1)
SELECT DISTINCT @ FROM numbers(1)
SELECT x FROM numbers(1) ARRAY JOIN [@] AS x
SELECT x FROM numbers(1) LEFT ARRAY JOIN arrayMap(y -> @, [1]) AS x
SELECT 1 FROM numbers(1) AS a JOIN numbers(1) AS b ON a.number = b.number AND @ != ''
SELECT 1 FROM numbers(1) AS a LEFT JOIN numbers(1) AS b ON @ = 'a'
SELECT 1 FROM numbers(1) AS a ASOF JOIN numbers(1) AS b ON a.number = b.number AND a.number > @
SELECT 1 FROM numbers(1) AS a JOIN (SELECT @ AS number) AS b USING (number)
SELECT 1 FROM numbers(1) AS a, (SELECT @) AS b
SELECT 1 FROM numbers(1) AS a PASTE JOIN (SELECT @) AS b
SELECT sum(1) OVER (PARTITION BY @)
SELECT sum(1) OVER (ORDER BY @)
SELECT sum(1) OVER (ORDER BY 1 ROWS BETWEEN @ PRECEDING AND CURRENT ROW)
SELECT sum(1) OVER w FROM numbers(1) WINDOW w AS (ORDER BY @)
SELECT 1 FROM numbers(1) WINDOW w AS (PARTITION BY @)
SELECT sum(1) OVER (w ORDER BY @) FROM numbers(1) WINDOW w AS (PARTITION BY 1)
SELECT quantile(@)(1)
SELECT max(@)
SELECT groupArray(@)
SELECT anyIf(@, 1)
SELECT argMax(1, @)
SELECT sum(1) FILTER (WHERE @ != '')
SELECT first_value(@) IGNORE NULLS
SELECT CASE WHEN @ = '' THEN 1 ELSE 2 END
SELECT CASE @ WHEN '' THEN 1 END
SELECT CASE 1 WHEN 1 THEN @ END
SELECT CAST(@ AS String)
SELECT toUInt8(@)
SELECT throwIf(1, @)
SELECT @::String
SELECT [@][1]
SELECT [1, 2][@]
SELECT (1, @).2
SELECT tuple(@ AS a).a
SELECT map('a', @)
SELECT @ IN ('a')
SELECT 'a' IN @
SELECT 'a' IN (@, 'b')
SELECT 'a' NOT IN (SELECT @)
SELECT 'a' GLOBAL IN (SELECT @)
SELECT EXISTS (SELECT @)
SELECT 'a' = ANY (SELECT @)
SELECT 'a' >= ALL (SELECT @)
SELECT (SELECT @)
SELECT (SELECT (SELECT @))
SELECT @ BETWEEN 'a' AND 'b'
SELECT 'a' LIKE @
SELECT @ IS NULL
SELECT NOT @
SELECT -@
SELECT @ ? 1 : 2
SELECT 1 ? @ : 2
SELECT INTERVAL @ DAY
SELECT EXTRACT(DAY FROM @)
SELECT DATE_ADD(DAY, @, now())
SELECT TRIM(BOTH @ FROM 'a')
SELECT SUBSTRING(@ FROM 1 FOR 2)
SELECT POSITION(@ IN 'a')
SELECT 'a' || @
SELECT 1 UNION ALL SELECT @
SELECT 1 UNION DISTINCT (SELECT 2 UNION ALL SELECT @)
SELECT '' EXCEPT SELECT @
SELECT '' INTERSECT SELECT @
SELECT untuple((1, @))
SELECT arrayJoin([@])
SELECT arrayReduce('any', [@])
SELECT arrayReduce(@, [1])
SELECT if(@ = '', 1, 2)
SELECT multiIf(@ = '', 1, 2)
SELECT ignore(@)
SELECT materialize(@)
SELECT toTypeName(@)
SELECT initializeAggregation('any', @)
SELECT dictGet('d', 'a', @)
SELECT joinGet('t', 'a', @)
SELECT JSONExtract('{}', 'a', @)
SELECT CAST('a', @)
FROM numbers(1) SELECT @
SELECT * FROM (SELECT @)
SELECT * FROM (SELECT * FROM (SELECT @ AS x) WHERE x != '')
SELECT * FROM view(SELECT @)
SELECT * FROM (EXPLAIN SELECT @)
SELECT * FROM viewExplain('EXPLAIN', '', (SELECT @))
SELECT 1 FROM numbers(1) SAMPLE 1/10 WHERE @
SELECT grouping(number), @ FROM numbers(1) GROUP BY number
SELECT tool_name FROM tool_stats_1h WHERE tool_name = @
SELECT d FROM values('s String, d String DEFAULT toString(#)', ('x'))
SELECT d FROM values('s String, d String ALIAS toString(#)', ('x'))
SELECT d FROM values('s String, d ALIAS #', 'x')
SELECT d FROM VALUES('d String MATERIALIZED #', ('x'))
SELECT d FROM values(concat('s String, d String ', 'ALIAS #'), 'x')
""")
"""``@`` is an expression; ``#`` is one within text, its quotes doubled."""

REFERENCES: Final = _lines("""
SELECT arrayMap(@, [$])
SELECT %(@, [$])
SELECT %(@, [$], [$])
SELECT %(@, map('a', $))
SELECT %((@), [$])
SELECT %(@ AS harmless, [$])
WITH @ AS f SELECT %(f, [$])
WITH @ AS f, f AS g SELECT %(g, [$])
WITH x -> %(@, [x]) AS f SELECT f($)
SELECT %(x -> %(@, [x]), [$])
SELECT (SELECT arrayMap(@, [$]))
SELECT * FROM (SELECT arrayMap(@, [$]) AS x) WHERE x[1] != ''
SELECT arrayMap(@, groupArray(x)) FROM (SELECT $ AS x)
SELECT * APPLY(@) FROM (SELECT $ AS x)
SELECT * APPLY @ FROM (SELECT $ AS x)
SELECT * APPLY(@, 'p_') FROM (SELECT $ AS x)
SELECT * APPLY(@($)) FROM (SELECT $ AS x)
SELECT * APPLY(toString) APPLY(@) FROM (SELECT $ AS x)
SELECT * EXCEPT (y) APPLY(@) FROM (SELECT $ AS x, 1 AS y)
SELECT * REPLACE ($ AS x) APPLY(@) FROM (SELECT 1 AS x)
SELECT COLUMNS('x') APPLY(@) FROM (SELECT $ AS x)
SELECT COLUMNS(x, y) APPLY(@) FROM (SELECT $ AS x, $ AS y)
SELECT t.COLUMNS('x') APPLY(@) FROM (SELECT $ AS x) AS t
SELECT t.* APPLY(@) FROM (SELECT $ AS x) AS t
SELECT tuple(* APPLY(@)) FROM (SELECT $ AS x)
SELECT x.* APPLY(@) FROM (SELECT tuple($) AS x)
SELECT 1 FROM (SELECT $ AS x) WHERE tuple(* APPLY(@)).1 != ''
SELECT arrayReduce('@', [$])
SELECT arrayReduceInRanges('@', [(1, 1)], [$])
SELECT initializeAggregation('@', $)
SELECT arrayMap('@', [$])
SELECT * APPLY('@') FROM (SELECT $ AS x)
SELECT * FROM @
SELECT 1 IN @
SELECT @.x FROM (SELECT $ AS x) AS @
SELECT x AS @, arrayMap(@, [x]) FROM (SELECT $ AS x)
""")
"""``@`` names a function, ``%`` one that takes a function, ``$`` is a value."""

TABLES: Final = _lines("""
SELECT * FROM @
SELECT count() FROM @
SELECT * FROM @ AS `a, table_function_name: numbers`
SELECT * FROM (SELECT * FROM @)
SELECT (SELECT count() FROM @)
SELECT 1 IN @
SELECT 1 IN (@)
SELECT 1 IN (SELECT * FROM @)
SELECT 'a' GLOBAL NOT IN (SELECT * FROM @)
SELECT EXISTS (SELECT * FROM @)
WITH x AS (SELECT * FROM @) SELECT * FROM x
WITH x AS (SELECT * FROM @) SELECT 1
WITH (SELECT any(*) FROM @) AS x SELECT x
WITH RECURSIVE x AS (SELECT 1 AS n UNION ALL SELECT 2 FROM @, x) SELECT * FROM x LIMIT 1
SELECT 1 FROM numbers(1) AS a JOIN @ AS b ON 1
SELECT 1 FROM numbers(1) AS a, @ AS b
SELECT 1 FROM @ AS a PASTE JOIN numbers(1) AS b
SELECT 1 UNION ALL SELECT count() FROM @
SELECT * FROM @ FINAL
SELECT * FROM @ SAMPLE 1/2
SELECT * FROM @ ARRAY JOIN [1] AS x
SELECT COLUMNS('.*') APPLY(toString) FROM @
SELECT tool_name FROM tool_metrics WHERE user_id IN (SELECT * FROM @)
SELECT * FROM view(SELECT * FROM @)
SELECT * FROM loop(@)
SELECT * FROM viewIfPermitted(SELECT * FROM @ ELSE null('x String'))
SELECT * FROM remote('$', @)
SELECT * FROM cluster('default', @)
SELECT * FROM merge(@)
DESCRIBE @
DESCRIBE TABLE @
DESCRIBE (SELECT * FROM @)
EXISTS TABLE @
SHOW CREATE TABLE @
SHOW COLUMNS FROM @
SHOW INDEX FROM @
CHECK TABLE @
INSERT INTO tool_metrics (user_id) SELECT * FROM @
INSERT INTO FUNCTION @ SELECT 1
INSERT INTO @ SELECT 1
CREATE TABLE evil ENGINE = Memory AS SELECT * FROM @
CREATE TABLE evil AS @
CREATE VIEW evil AS SELECT * FROM @
SELECT * FROM tool_stats_1h(tool = @)
SELECT * FROM executable('cat', TabSeparated, 's String', (SELECT * FROM @))
SELECT joinGet(@, 'a', 1)
SELECT dictGet(@, 'a', 1)
""")
"""``@`` is a table or a call of a table function; ``$`` an address."""

STATEMENTS: Final = _lines("""
@
@
@
@
(@)
EXPLAIN @
EXPLAIN PLAN actions = 1, indexes = 1 @
EXPLAIN PIPELINE header = 1 @
EXPLAIN ESTIMATE @
EXPLAIN QUERY TREE run_passes = 1 @
EXPLAIN SYNTAX run_query_tree_passes = 1 @
EXPLAIN AST @
DESCRIBE (@)
DESCRIBE TABLE (@)
SELECT * FROM (@)
SELECT * FROM (@) LIMIT 1
SELECT (@)
SELECT 1 IN (@)
WITH q AS (@) SELECT * FROM q
@ UNION ALL @
@ SETTINGS max_threads = 1
@ SETTINGS readonly = 0
@ FORMAT CSV
@ INTO OUTFILE '{folder}/written.csv'
@ INTO OUTFILE '{folder}/written.csv' TRUNCATE FORMAT CSV
@;
@; DROP TABLE tool_metrics
SELECT 1; @
-- a comment @
/* a comment */ @ -- and another
INSERT INTO tool_metrics (user_id) @
CREATE TABLE evil ENGINE = Memory AS @
CREATE TABLE evil ENGINE = ! AS @
CREATE DATABASE evil ENGINE = !
CREATE VIEW evil AS @
CREATE TEMPORARY TABLE evil AS @
CREATE FUNCTION evil AS () -> (@)
PARALLEL WITH @
EXECUTE AS default @
SET param_x = 'a'
""")
"""``@`` is a query, ``!`` an engine with its arguments."""
