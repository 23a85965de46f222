// Waits for the result of `evaluate`, on engines that settle promises themselves.

/** `then(await call())`, or `failed(reason)`. */
export async function settle(call, then, failed) {
  let returned;
  try {
    returned = then(await call());
  } catch (thrown) {
    return failed(thrown);
  }
  return returned;
}

settle.all = (values, each) => Promise.all(values.map(each));

settle.u64 = (number) => BigInt(Math.trunc(Number(number)));
