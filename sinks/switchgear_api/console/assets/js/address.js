/** The addresses of the pages. */

export const PAGES = /** @type {const} */ ([
  { name: "now", path: "/", title: "Now", key: "n" },
  { name: "timeline", path: "/timeline", title: "Timeline", key: "t" },
  { name: "calls", path: "/calls", title: "Calls", key: "c" },
  { name: "lab", path: "/lab", title: "Policy lab", key: "l" },
  { name: "sql", path: "/sql", title: "SQL", key: "q" },
  { name: "dead", path: "/dead", title: "Dead letters", key: "d" },
  { name: "audit", path: "/audit", title: "Audit", key: "a" },
  { name: "system", path: "/system", title: "System", key: "s" },
]);

/**
 * @param {string} path
 * @param {string} search
 * @returns {{ page: string, tool: string, params: Record<string, string> }}
 */
export function parse(path, search) {
  const params = Object.fromEntries(new URLSearchParams(search));
  if (path.startsWith("/tool/")) {
    const written = path.slice("/tool/".length);
    let tool = written;
    try {
      tool = decodeURIComponent(written);
    } catch {
      // a stray % in a link that was written by hand: take it as it is
    }
    return { page: "tool", tool, params };
  }
  if (path === "/login") return { page: "login", tool: "", params };
  const found = PAGES.find((page) => page.path === path);
  return { page: found ? found.name : "missing", tool: "", params };
}

/**
 * @param {string} path
 * @param {Record<string, unknown>} params an empty or missing value is left out
 */
export function address(path, params = {}) {
  const kept = Object.entries(params).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const query = new URLSearchParams(kept.map(([key, value]) => [key, String(value)])).toString();
  return query ? `${path}?${query}` : path;
}

/** @param {string} name @param {Record<string, unknown>} [params] */
export const toolAddress = (name, params = {}) => address(`/tool/${encodeURIComponent(name)}`, params);

/**
 * Return a path of this site to go to after a login, or the first page. Other sites are never returned.
 * @param {string | undefined} next
 */
export function safeNext(next) {
  if (!next || !next.startsWith("/") || next.startsWith("//") || /[\\\s\u0000-\u001f]/.test(next)) return "/";
  const base = "http://console.invalid";
  const parsed = new URL(next, base);
  return parsed.origin === base ? parsed.pathname + parsed.search : "/";
}
