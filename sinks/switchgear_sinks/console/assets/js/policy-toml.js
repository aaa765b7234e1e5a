/** The values of one policy as TOML: `key = value` lines and sub-tables, as in a policy file. No browser is needed here. */

/**
 * Read the values. A heading such as [tools."mcp:*"] may stand above them; the page says which circuits they are for.
 * @param {string} text
 * @returns {{ policy: Record<string, unknown>, problem: string }}
 */
export function parsePolicy(text) {
  /** @type {Record<string, unknown>} */
  const policy = {};
  let table = policy;
  for (const [index, line] of text.split("\n").entries()) {
    const written = line.trim();
    if (!written || written.startsWith("#")) continue;
    const heading = /^\[([^\]]*)\]\s*(#.*)?$/.exec(written);
    if (heading) {
      const name = /(?:^|\.)([a-z_]+)$/.exec(heading[1] ?? "")?.[1];
      table = policy;
      if (name && name !== "default" && !/^(tools|family)\./.test(name) && name !== "tools" && name !== "family") {
        table = /** @type {Record<string, unknown>} */ (policy[name] ??= {});
      }
      continue;
    }
    const pair = /^([A-Za-z_][\w]*(?:\.[A-Za-z_]\w*)?)\s*=\s*(.+)$/.exec(written);
    if (!pair?.[1] || !pair[2]) return { policy, problem: `Line ${index + 1}: write name = value.` };
    const value = readValue(pair[2]);
    if (value === undefined)
      return { policy, problem: `Line ${index + 1}: ${pair[2]} is not a number, a "text", true, false or a [list].` };
    const [name, inner] = pair[1].split(".");
    if (inner && name) /** @type {Record<string, unknown>} */ (table[name] ??= {})[inner] = value;
    else if (name) table[name] = value;
  }
  return { policy, problem: "" };
}

/** @param {string} written @returns {unknown} undefined if it can't be read */
function readValue(written) {
  const text = withoutComment(written).trim();
  if (text === "true" || text === "false") return text === "true";
  if (/^[+-]?[\d_]+(\.[\d_]+)?([eE][+-]?\d+)?$/.test(text)) return Number(text.replaceAll("_", ""));
  if (/^"(?:[^"\\]|\\.)*"$/.test(text)) {
    try {
      return JSON.parse(text);
    } catch {
      return undefined;
    }
  }
  if (/^'[^']*'$/.test(text)) return text.slice(1, -1);
  if (!text.startsWith("[") || !text.endsWith("]")) return undefined;
  const inner = text.slice(1, -1).trim().replace(/,$/, "");
  if (!inner) return [];
  const items = (inner.match(/"(?:[^"\\]|\\.)*"|'[^']*'|[^,]+/g) ?? []).map((item) => readValue(item.trim()));
  return items.includes(undefined) ? undefined : items;
}

/** @param {string} text */
function withoutComment(text) {
  const quoted = /^("(?:[^"\\]|\\.)*"|'[^']*'|\[(?:"(?:[^"\\]|\\.)*"|[^"\]])*\]|[^#]*)/.exec(text);
  return quoted?.[0] ?? text;
}

/**
 * Write the values.
 * @param {Record<string, unknown>} policy
 */
export function writePolicy(policy) {
  const flat = Object.entries(policy).filter(([, value]) => !isTable(value));
  const tables = Object.entries(policy).filter(([, value]) => isTable(value));
  const lines = flat.map(([name, value]) => `${name} = ${writeValue(value)}`);
  for (const [name, value] of tables) {
    lines.push(
      "",
      `[${name}]`,
      ...Object.entries(/** @type {object} */ (value)).map(([inner, held]) => `${inner} = ${writeValue(held)}`),
    );
  }
  return lines.join("\n").trim();
}

/** @param {unknown} value @returns {boolean} */
const isTable = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** @param {unknown} value @returns {string} */
function writeValue(value) {
  if (value === null || value === undefined) return '"off"';
  if (Array.isArray(value)) return `[${value.map(writeValue).join(", ")}]`;
  return JSON.stringify(value);
}

/**
 * Return the policy with one value changed. Undefined removes the value.
 * @param {Record<string, unknown>} policy
 * @param {string} name
 * @param {unknown} value
 */
export function withValue(policy, name, value) {
  const { [name]: _, ...rest } = policy;
  return value === undefined ? rest : { ...policy, [name]: value };
}
