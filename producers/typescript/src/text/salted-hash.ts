const ROTATED = (value: number, by: number): number => (value << by) | (value >>> (32 - by));

/** Returns the hash of a text, 16 characters long. */
export type SaltedHash = (text: string) => string;

/**
 * Return a hash function with a random salt: HalfSipHash-2-4 with two keys, 64 bits together. Without the salt, nobody finds texts of
 * the same hash. It is for look-ups in this process: Web Crypto has only hashes that have to be awaited.
 */
export function saltedHash(salt?: Uint32Array): SaltedHash {
  return (text) => {
    salt ??= crypto.getRandomValues(new Uint32Array(4)); // not before: a module of a Worker may make no random numbers
    const [a = 0, b = 0, c = 0, d = 0] = salt;
    const bytes = new TextEncoder().encode(text);
    return hex(halfSipHash(bytes, a, b)) + hex(halfSipHash(bytes, c, d));
  };
}

function hex(value: number): string {
  return (value >>> 0).toString(16).padStart(8, "0");
}

function halfSipHash(bytes: Uint8Array, key0: number, key1: number): number {
  const state: [number, number, number, number] = [key0, key1, 0x6c796765 ^ key0, 0x74656462 ^ key1];
  const whole = bytes.length & ~3;
  for (let at = 0; at < whole; at += 4) {
    absorb(state, bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24));
  }
  let last = bytes.length << 24;
  for (let at = whole; at < bytes.length; at += 1) {
    last |= bytes[at]! << (8 * (at - whole));
  }
  absorb(state, last);
  state[2] ^= 0xff;
  for (let round = 0; round < 4; round += 1) {
    sipRound(state);
  }
  return state[1] ^ state[3];
}

function absorb(state: [number, number, number, number], word: number): void {
  state[3] ^= word;
  sipRound(state);
  sipRound(state);
  state[0] ^= word;
}

function sipRound(state: [number, number, number, number]): void {
  let [v0, v1, v2, v3] = state;
  v0 = (v0 + v1) | 0;
  v1 = ROTATED(v1, 5) ^ v0;
  v0 = ROTATED(v0, 16);
  v2 = (v2 + v3) | 0;
  v3 = ROTATED(v3, 8) ^ v2;
  v0 = (v0 + v3) | 0;
  v3 = ROTATED(v3, 7) ^ v0;
  v2 = (v2 + v1) | 0;
  v1 = ROTATED(v1, 13) ^ v2;
  v2 = ROTATED(v2, 16);
  state[0] = v0;
  state[1] = v1;
  state[2] = v2;
  state[3] = v3;
}
