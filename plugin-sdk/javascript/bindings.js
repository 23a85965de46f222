// Values and errors as the bindings of a component hand them over.

export const nothing = (value) => value === null || value === undefined;

export const json = (value) => (nothing(value) ? undefined : JSON.stringify(value));

export const parsed = (text) => (nothing(text) ? undefined : JSON.parse(text));

export function value(payload) {
  if (nothing(payload)) return undefined;
  return payload.tag === "text" ? payload.val : JSON.parse(payload.val);
}

// The engines hand a failed call over in different wrappings.
export function errorOf(Class, thrown) {
  const variant = thrown?.payload ?? thrown;
  return typeof variant?.tag === "string" ? new Class(variant.tag, variant.val) : thrown;
}

export function asking(Class, call) {
  try {
    return call();
  } catch (thrown) {
    throw errorOf(Class, thrown);
  }
}
