/** What the API says about policies. */

/**
 * Return the values that a pattern has now, by its own table and by operators. Other tables may add more.
 * @param {any} answer of /v1/policies
 * @param {string} pattern
 * @returns {Record<string, unknown>}
 */
export function currentPolicy(answer, pattern) {
  const tables = [...(answer?.rules ?? []), ...(answer?.overrides ?? [])];
  return Object.assign(
    {},
    ...tables.filter((table) => table.pattern === pattern).map((table) => table.policy ?? table.values ?? {}),
  );
}
