/** Which rows of a long table are on the screen. */

/**
 * @param {number} total rows
 * @param {number} rowHeight pixels
 * @param {number} above pixels of the table above the visible part
 * @param {number} height pixels of the visible part
 * @param {number} [extra] rows kept on both sides
 */
export function visibleRows(total, rowHeight, above, height, extra = 8) {
  const first = Math.max(0, Math.min(total, Math.floor(above / rowHeight) - extra));
  const last = Math.max(first, Math.min(total, Math.ceil((above + height) / rowHeight) + extra));
  return { first, last, before: first * rowHeight, after: (total - last) * rowHeight };
}
