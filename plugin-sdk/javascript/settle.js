// Waiting for what `evaluate` returned, on engines that wait for promises themselves.

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
