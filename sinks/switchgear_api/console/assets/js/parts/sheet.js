import { html, useLayoutEffect, useRef } from "../html.js";

/**
 * A modal dialog. The browser keeps the focus inside, and gives it back when the dialog closes.
 * @param {{ label: string, onClose: () => void, wide?: boolean, children?: unknown }} props
 */
export function Sheet({ label, onClose, wide = false, children }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  // Before the next key: what is typed right after "/" belongs to the dialog.
  useLayoutEffect(() => {
    const opener = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    };
  }, []);
  const onBackdrop = (/** @type {MouseEvent} */ event) => {
    if (event.target === dialog.current) onClose();
  };
  return html`<dialog ref=${dialog} class=${`sheet ${wide ? "wide" : ""}`} aria-label=${label} onClose=${onClose} onMouseDown=${onBackdrop}>
    ${children}
  </dialog>`;
}
