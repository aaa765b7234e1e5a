import { html, useEffect, useLayoutEffect, useRef, useState } from "../html.js";
import { visibleRows } from "../windowing.js";

export const ROW_PX = 34;

/**
 * The body of a long table: only rows on the screen are in the document. The rows above and below are one empty row each.
 * @param {{ rows: unknown[], columns: number, render: (row: any, index: number) => unknown }} props
 */
export function WindowedBody({ rows, columns, render }) {
  const body = useRef(/** @type {HTMLTableSectionElement | null} */ (null));
  // A few rows first. What fits is measured before the browser paints.
  const [view, setView] = useState({ above: 0, height: 0 });
  const measure = () => {
    const scroller = document.querySelector("main");
    if (!scroller || !body.current) return;
    const above = scroller.getBoundingClientRect().top - body.current.getBoundingClientRect().top;
    // Steps of a few rows: a scroll by pixels alone needs no new rows.
    const stepped = Math.floor(above / (ROW_PX * 4)) * ROW_PX * 4;
    setView((before) =>
      before.above === stepped && before.height === scroller.clientHeight
        ? before
        : { above: stepped, height: scroller.clientHeight },
    );
  };
  useEffect(() => {
    const scroller = document.querySelector("main");
    if (!scroller) return undefined;
    const observer = new ResizeObserver(measure);
    observer.observe(scroller);
    scroller.addEventListener("scroll", measure, { passive: true });
    return () => {
      observer.disconnect();
      scroller.removeEventListener("scroll", measure);
    };
  }, []);
  useLayoutEffect(measure, [rows.length]);
  const { first, last, before, after } = visibleRows(rows.length, ROW_PX, view.above, view.height + ROW_PX * 4);
  return html`<tbody ref=${body}>
    ${before ? html`<tr aria-hidden="true" key="before"><td colspan=${columns} class="spacer" style=${{ height: `${before}px` }}></td></tr>` : null}
    ${rows.slice(first, last).map((row, index) => render(row, first + index))}
    ${after ? html`<tr aria-hidden="true" key="after"><td colspan=${columns} class="spacer" style=${{ height: `${after}px` }}></td></tr>` : null}
  </tbody>`;
}
