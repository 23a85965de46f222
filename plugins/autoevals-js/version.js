// Version of this plug-in, and of the package in it.

export const VERSION = "0.3.0";
export { version as AUTOEVALS } from "autoevals/package.json";
