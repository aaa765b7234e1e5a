import { html } from "../html.js";

/** Paths in a square of 16. */
const PATHS = /** @type {Record<string, string>} */ ({
  now: "M2 9h3l2-5 3 9 2-4h2",
  timeline: "M2 4h7M5 8h9M3 12h6M14 3v2",
  calls: "M3 4h10M3 8h10M3 12h6",
  lab: "M6 2h4M7 2v4L3.5 12.5A1 1 0 0 0 4.4 14h7.2a1 1 0 0 0 .9-1.5L9 6V2M5.5 10h5",
  sql: "M3 4c0-1.1 2.2-2 5-2s5 .9 5 2-2.2 2-5 2-5-.9-5-2ZM3 4v8c0 1.1 2.2 2 5 2s5-.9 5-2V4M3 8c0 1.1 2.2 2 5 2s5-.9 5-2",
  dead: "M2 4h12v8H2zM2 4l6 5 6-5",
  audit: "M4 2h8v12l-4-2.5L4 14zM6.5 5.5h3M6.5 8h3",
  system: "M3 3h10v4H3zM3 9h10v4H3zM5 5h.01M5 11h.01",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM11 11l3 3",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM8 1.5V3M8 13v1.5M1.5 8H3M13 8h1.5M3.4 3.4l1 1M11.6 11.6l1 1M3.4 12.6l1-1M11.6 4.4l1-1",
  moon: "M13.5 9.5A6 6 0 0 1 6.5 2.5a6 6 0 1 0 7 7Z",
  out: "M6 2H3v12h3M7 8h7M11 5l3 3-3 3",
  undo: "M3 6h7a3.5 3.5 0 0 1 0 7H6M3 6l3-3M3 6l3 3",
  right: "M6 3l5 5-5 5",
  download: "M8 2v8M5 7l3 3 3-3M2.5 13.5h11",
  help: "M6 6a2 2 0 1 1 2.8 1.8c-.5.3-.8.7-.8 1.2M8 11.5h.01M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13Z",
  success: "M3 8.5l3.2 3L13 5",
  error: "M4 4l8 8M12 4l-8 8",
  timeout: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 5v3l2 1.5",
  cancelled: "M4 8h8",
  rejected: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM4 12l8-8",
  close: "M4 4l8 8M12 4l-8 8",
});

/** @param {{ name: string }} props */
export function Icon({ name }) {
  return html`<svg viewBox="0 0 16 16" width="16" height="16" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
    <path d=${PATHS[name] ?? ""} />
  </svg>`;
}

/** The mark: a switch that is open. */
export function Mark() {
  return html`<svg viewBox="0 0 20 20" fill="none" stroke="currentColor" stroke-width="2.2" stroke-linecap="round" aria-hidden="true">
    <path d="M2 13.5h4L13 6.5M15 13.5h3" /><circle cx="6" cy="13.5" r="1.6" fill="currentColor" />
  </svg>`;
}
