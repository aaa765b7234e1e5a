/** Returns the hash of a text, 24 characters long. */
export type SaltedHash = (text: string) => string;

const HASH_BYTES = 12;
/** Of a block. */
const BYTES = 128;
/** The fractions of the square roots of the first primes: each the lower 32 bits, then the upper ones. */
const IV = new Uint32Array([
  0xf3bcc908, 0x6a09e667, 0x84caa73b, 0xbb67ae85, 0xfe94f82b, 0x3c6ef372, 0x5f1d36f1, 0xa54ff53a, 0xade682d1,
  0x510e527f, 0x2b3e6c1f, 0x9b05688c, 0xfb41bd6b, 0x1f83d9ab, 0x137e2179, 0x5be0cd19,
]);
/** The order of a block's words in each round. */
const ORDER = Uint8Array.from(
  "0123456789abcdef" +
    "ea489fd61c02b753" +
    "b8c052fdae367194" +
    "7931dcbe265a40f8" +
    "905724afe1bc683d" +
    "2c6a0b834d75fe19" +
    "c51fed4a0763928b" +
    "db7ec13950f4862a" +
    "6fe9b308c2d714a5" +
    "a2847615fb9e3cd0",
  (word) => parseInt(word, 16),
);
/**
 * Return a hash function: BLAKE2b (RFC 7693) with a key, as in the Python client. Without the key, nobody finds texts of the same hash. Web
 * Crypto has only hashes that have to be awaited.
 */
export function saltedHash(key?: Uint8Array): SaltedHash {
  let begun: Uint32Array | undefined;
  return (text) => {
    if (begun === undefined) {
      key ??= crypto.getRandomValues(new Uint8Array(32)); // not before: a module of a Worker may make no random numbers
      begun = IV.slice();
      begun[0]! ^= 0x01010000 ^ (key.length << 8) ^ HASH_BYTES;
      const block = new Uint8Array(BYTES);
      block.set(key);
      compress(begun, new Uint32Array(block.buffer), BYTES, text === "");
    }
    const bytes = new TextEncoder().encode(text);
    const hash = begun.slice();
    for (let from = 0; from < bytes.length; from += BYTES) {
      const block = new Uint8Array(BYTES);
      block.set(bytes.subarray(from, from + BYTES));
      const end = Math.min(from + BYTES, bytes.length);
      compress(hash, new Uint32Array(block.buffer), BYTES + end, end === bytes.length);
    }
    const found = new Uint8Array(hash.buffer, 0, HASH_BYTES); // all run-times are little-endian
    return Array.from(found, (byte) => byte.toString(16).padStart(2, "0")).join("");
  };
}

/** Add a block to a hash. `length` is that of all bytes so far. */
function compress(hash: Uint32Array, words: Uint32Array, length: number, last: boolean): void {
  const v = new Uint32Array(32);
  v.set(hash);
  v.set(IV, 16);
  v[24]! ^= length;
  if (last) {
    v[28] = ~v[28]!;
    v[29] = ~v[29]!;
  }
  for (let step = 0; step < 96; step += 1) {
    const a = 2 * (step & 3);
    const turn = (step & 4) >> 1; // columns, then diagonals
    const b = 8 + ((a + turn) & 7);
    const c = 16 + ((a + 2 * turn) & 7);
    const d = 24 + ((a + 3 * turn) & 7);
    const word = (2 * step) % 160;
    mix(v, a, b, d, words, 2 * ORDER[word]!, 32);
    mix(v, c, d, b, null, 0, 24);
    mix(v, a, b, d, words, 2 * ORDER[word + 1]!, 16);
    mix(v, c, d, b, null, 0, 63);
  }
  for (let at = 0; at < 16; at += 1) {
    hash[at]! ^= v[at]! ^ v[at + 16]!;
  }
}

/** Of the 64 bits at each place: add those at `more`, and a word of the block, to those at `to`. Combine the sum with those at `out`, and rotate them right. */
function mix(
  v: Uint32Array,
  to: number,
  more: number,
  out: number,
  words: Uint32Array | null,
  word: number,
  by: number,
): void {
  const sum = v[to]! + v[more]! + (words === null ? 0 : words[word]!);
  v[to] = sum;
  v[to + 1] = v[to + 1]! + v[more + 1]! + (words === null ? 0 : words[word + 1]!) + Math.floor(sum / 0x100000000);
  const swap = by >> 5;
  const low = v[out + swap]! ^ v[to + swap]!;
  const high = v[out + 1 - swap]! ^ v[to + 1 - swap]!;
  v[out] = by === 32 ? low : (low >>> by) | (high << -by);
  v[out + 1] = by === 32 ? high : (high >>> by) | (low << -by);
}
