/** What Python's `str.isprintable` refuses: control and format characters, separators, and characters without a meaning. */
const UNPRINTABLE = /[\p{C}\p{Z}]/gu;

/** Return `text` on one line without control characters, at most `most` characters long. An ellipsis marks a cut. */
export function oneLine(text: string, most: number): string {
  const characters = [...text.slice(0, 8 * most)].slice(0, 4 * most).join("");
  const plain = characters.replace(UNPRINTABLE, " ").split(/\s+/u).filter(Boolean).join(" ");
  const found = [...plain];
  return found.length <= most ? plain : `${found.slice(0, most - 1).join("")}…`;
}
