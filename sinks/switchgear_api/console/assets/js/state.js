/** The address holds what is shown: which page, which tool, which filters. A link to it shows the same. */
import { useEffect, useState } from "./html.js";
import { address, parse } from "./address.js";

const CHANGED = "switchgear:navigated";

/** @param {string} path @param {Record<string, unknown>} [params] @param {{ replace?: boolean }} [options] */
export function go(path, params = {}, options = {}) {
  const target = address(path, params);
  if (target === location.pathname + location.search) return;
  history[options.replace ? "replaceState" : "pushState"](null, "", target);
  dispatchEvent(new Event(CHANGED));
}

/**
 * Change some parameters of the present address. An empty value removes its parameter.
 * @param {Record<string, unknown>} changes
 */
export function setParams(changes) {
  go(location.pathname, { ...Object.fromEntries(new URLSearchParams(location.search)), ...changes }, { replace: true });
}

/** Return what the address says, and render again when it changes. */
export function useRoute() {
  const [route, setRoute] = useState(() => parse(location.pathname, location.search));
  useEffect(() => {
    const update = () => setRoute(parse(location.pathname, location.search));
    addEventListener("popstate", update);
    addEventListener(CHANGED, update);
    return () => {
      removeEventListener("popstate", update);
      removeEventListener(CHANGED, update);
    };
  }, []);
  return route;
}

/**
 * Follow links inside the console without loading the page again.
 * @param {MouseEvent} event
 */
export function followLink(event) {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return;
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (link.pathname.startsWith("/v1") || link.pathname.startsWith("/login/") || link.pathname === "/openapi.json")
    return;
  if (link.hash) return;
  event.preventDefault();
  go(link.pathname, Object.fromEntries(new URLSearchParams(link.search)));
  document.querySelector("main")?.scrollTo(0, 0);
}
