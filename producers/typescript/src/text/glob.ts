/** Globs over the names of tools. The rules are those of Python's `fnmatch`: all processes take the same setting alike. */

type Part = "*" | ((letter: string) => boolean);

/** A class with its closing bracket, or one character. `]` right after the opening bracket is a member. */
const PART = /\[(?=(!?\]?))\1[^\]]*\]|[^]/gu;

/** Return whether the glob (`*`, `?`, `[abc]`, case matters) covers the whole name. A name covers itself. */
export function matches(pattern: string, name: string): boolean {
  if (pattern === name) {
    return true;
  }
  const parts = (pattern.match(PART) ?? []).map(partOf);
  const letters = [...name];
  let part = 0;
  let star = -1;
  let taken = 0; // by the last star
  for (let place = 0; place < letters.length;) {
    const expected = parts[part];
    if (expected === "*") {
      star = part++;
      taken = place;
    } else if (expected?.(letters[place] as string)) {
      part++;
      place++;
    } else if (star >= 0) {
      part = star + 1;
      place = ++taken;
    } else {
      return false;
    }
  }
  return parts.slice(part).every((left) => left === "*");
}

function partOf(text: string): Part {
  if (text === "*") {
    return "*";
  }
  if (text === "?") {
    return () => true;
  }
  const letters = [...text];
  return letters.length === 1 ? (letter) => letter === text : classOf(letters.slice(1, -1));
}

function classOf(letters: readonly string[]): (letter: string) => boolean {
  const not = letters[0] === "!";
  const members = not ? letters.slice(1) : letters;
  const ranges: (readonly [number, number])[] = [];
  for (let place = 0; place < members.length;) {
    const isRange = members[place + 1] === "-" && place + 2 < members.length;
    ranges.push([code(members[place]), code(members[isRange ? place + 2 : place])]);
    place += isRange ? 3 : 1;
  }
  return (letter) => ranges.some(([first, last]) => first <= code(letter) && code(letter) <= last) !== not;
}

function code(letter: string | undefined): number {
  return letter?.codePointAt(0) ?? 0;
}
