// Values and errors of the bindings of a component.

export const nothing = (value) => value === null || value === undefined;

export const json = (value) => (nothing(value) ? undefined : JSON.stringify(value));

export const parsed = (text) => (nothing(text) ? undefined : JSON.parse(text));

export function value(payload) {
  if (nothing(payload)) return undefined;
  return payload.tag === "text" ? payload.val : JSON.parse(payload.val);
}

// The engines wrap the error of a failed call in different ways.
export function errorOf(Class, thrown) {
  const variant = thrown?.payload ?? thrown;
  return typeof variant?.tag === "string" ? new Class(variant.tag, variant.val) : thrown;
}

export function hostCall(Class, call) {
  try {
    return call();
  } catch (thrown) {
    throw errorOf(Class, thrown);
  }
}
