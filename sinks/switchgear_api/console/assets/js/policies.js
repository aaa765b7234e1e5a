/** What the API says about policies. */

/** @import { PolicyValue } from "../../types.js" */

/** @typedef {Record<string, unknown>} Table */

/** @param {unknown} value @returns {value is Table} */
export const isTable = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * Return the values that a pattern has now: the built-in ones, the file's default, its own table, and what operators set. Tables of
 * other patterns may change some of its tools.
 * @param {any} answer of /v1/policies
 * @param {string} pattern
 * @returns {Record<string, unknown>}
 */
export function currentPolicy(answer, pattern) {
  const tables = [...(answer?.rules ?? []), ...(answer?.overrides ?? [])];
  const own = tables.filter((table) => table.pattern === pattern).map((table) => table.values ?? {});
  return Object.assign({}, answer?.built_in, answer?.default, ...own);
}

/**
 * Return the effective values of a tool as a policy: "cusum.x" is the value x of the table cusum.
 * @param {PolicyValue[] | undefined} values
 * @returns {Record<string, unknown>}
 */
export function valuesOf(values) {
  /** @type {Record<string, unknown>} */
  const policy = {};
  for (const { setting, value } of values ?? []) {
    const [table, inner] = setting.split(".");
    if (table && inner) policy[table] = { .../** @type {object} */ (policy[table] ?? {}), [inner]: value };
    else policy[setting] = value;
  }
  return policy;
}

/**
 * Return the values of a policy that another one sets too. In a table, only the values that the other one sets.
 * @param {Record<string, unknown>} present
 * @param {Record<string, unknown>} policy
 * @returns {Record<string, unknown>}
 */
export function valuesIn(present, policy) {
  return Object.fromEntries(
    Object.entries(policy).map(([name, value]) => {
      const held = Object.hasOwn(present, name) ? present[name] : undefined;
      if (!isTable(value) || !isTable(held)) return [name, held];
      return [name, valuesIn(held, value)];
    }),
  );
}
