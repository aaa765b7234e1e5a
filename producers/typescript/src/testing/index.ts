export { adapterSuite, BACKUP, FORECAST, NEWS } from "./adapter-suite.js";
export type { AdapterDriver, SuiteCall, SuiteOptions, SuiteRun, SuiteTest, SuiteTool } from "./adapter-suite.js";
export { ManualClock } from "./clock.js";
export { InMemoryGateway, type SentEvent } from "./gateway.js";
