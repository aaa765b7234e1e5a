/** The values of one policy as TOML, as in a policy file. No browser is needed here. */
import { isTable } from "./policies.js";
import toml from "../vendor/smol-toml.js";

/** @import { Table } from "./policies.js" */

/**
 * Read the values. One heading such as [tools."mcp:*"] may stand above them; the page says which circuits they are for.
 * @param {string} text
 * @returns {{ policy: Table, problem: string }}
 */
export function parsePolicy(text) {
  /** @type {Table} */
  let read;
  try {
    read = /** @type {Table} */ (toml.parse(text));
  } catch (error) {
    const { line, message } = /** @type {{ line: number, message: string }} */ (error);
    const said = message.split("\n")[0]?.replace("Invalid TOML document: ", "");
    return { policy: {}, problem: `Line ${line}: ${said}.` };
  }
  const { tools, family, default: everything, ...values } = read;
  const headed = [everything, ...Object.values(tools ?? {}), ...Object.values(family ?? {})];
  const tables = [values, ...headed].filter(isTable).filter((table) => Object.keys(table).length > 0);
  if (tables.length > 1)
    return { policy: {}, problem: "Write the values of one table: the field above says which circuits they are for." };
  return { policy: { ...tables[0] }, problem: "" };
}

/**
 * Write the values.
 * @param {Table} policy
 */
export function writePolicy(policy) {
  const held = Object.entries(policy).map(([name, value]) => [name, value ?? "off"]);
  return toml.stringify(Object.fromEntries(held)).trim();
}

/**
 * Return the policy with one value changed. Undefined removes the value.
 * @param {Table} policy
 * @param {string} name
 * @param {unknown} value
 */
export function withValue(policy, name, value) {
  const { [name]: _, ...rest } = policy;
  return value === undefined ? rest : { ...policy, [name]: value };
}
