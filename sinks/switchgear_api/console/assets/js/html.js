/** The one place that knows the view library. */
import { h } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export { Fragment, render } from "../vendor/preact.js";
export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact-hooks.js";

/**
 * Without this, htm hands out one and the same element for every part of a template without values. Preact ties an element to its first parent, so
 * one that is kept holds the page that was drawn then, and from there all pages since.
 * @this {number[]} what htm notes about the part: with this number it keeps nothing
 * @param {any} type @param {any} props @param {any[]} children
 */
function fresh(type, props, ...children) {
  this[0] = 3;
  return h(type, props, ...children);
}

/** Write elements as markup. Every call returns new ones: no element may outlive the drawing that it was made for. */
export const html = htm.bind(fresh);
