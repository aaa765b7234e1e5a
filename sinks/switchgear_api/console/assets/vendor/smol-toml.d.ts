declare const toml: typeof import("smol-toml");
export default toml;
