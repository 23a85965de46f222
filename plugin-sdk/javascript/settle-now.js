// Promises for QuickJS in a component that is called synchronously.
//
// The job queue of the engine does not run there, so its promises never settle. Calls of the host block, so
// nothing waits for external events: this `Promise` has its own queue of reactions in the order of the
// language, and `settle` runs the queue when an evaluator has returned. It replaces that of the engine before any
// other module is loaded; the build rewrites `async` functions to generators that it drives.

const PENDING = 0;
const FULFILLED = 1;
const REJECTED = 2;

const queue = [];

function drain() {
  for (let next = 0; next < queue.length; next += 1) {
    const job = queue[next];
    queue[next] = undefined;
    job();
  }
  queue.length = 0;
}

class SettlingPromise {
  #state = PENDING;
  #value;
  #reactions = [];

  constructor(executor) {
    if (typeof executor !== "function") throw new TypeError("the argument of Promise must be a function");
    const { resolve, reject } = this.#functions();
    try {
      executor(resolve, reject);
    } catch (thrown) {
      reject(thrown);
    }
  }

  // A pair of functions, of which only the first call has an effect.
  #functions() {
    let called = false;
    const once = (act) => (value) => {
      if (called) return;
      called = true;
      act(value);
    };
    return {
      resolve: once((value) => this.#resolve(value)),
      reject: once((reason) => this.#settle(REJECTED, reason)),
    };
  }

  #resolve(value) {
    if (value === this) return this.#settle(REJECTED, new TypeError("a promise cannot be resolved with itself"));
    const mayWait = (typeof value === "object" && value !== null) || typeof value === "function";
    if (!mayWait) return this.#settle(FULFILLED, value);
    let then;
    try {
      then = value.then;
    } catch (thrown) {
      return this.#settle(REJECTED, thrown);
    }
    if (typeof then !== "function") return this.#settle(FULFILLED, value);
    queue.push(() => {
      const { resolve, reject } = this.#functions();
      try {
        then.call(value, resolve, reject);
      } catch (thrown) {
        reject(thrown);
      }
    });
  }

  #settle(state, value) {
    this.#state = state;
    this.#value = value;
    for (const reaction of this.#reactions) queue.push(reaction);
    this.#reactions = undefined;
  }

  then(onFulfilled, onRejected) {
    const { promise, resolve, reject } = SettlingPromise.withResolvers();
    const react = () => {
      const handler = this.#state === FULFILLED ? onFulfilled : onRejected;
      if (typeof handler !== "function") {
        (this.#state === FULFILLED ? resolve : reject)(this.#value);
        return;
      }
      try {
        resolve(handler(this.#value));
      } catch (thrown) {
        reject(thrown);
      }
    };
    if (this.#state === PENDING) this.#reactions.push(react);
    else queue.push(react);
    return promise;
  }

  catch(onRejected) {
    return this.then(undefined, onRejected);
  }

  finally(act) {
    if (typeof act !== "function") return this.then(act, act);
    return this.then(
      (value) => SettlingPromise.resolve(act()).then(() => value),
      (reason) =>
        SettlingPromise.resolve(act()).then(() => {
          throw reason;
        }),
    );
  }

  get [Symbol.toStringTag]() {
    return "Promise";
  }

  static withResolvers() {
    let resolve;
    let reject;
    const promise = new SettlingPromise((yes, no) => {
      resolve = yes;
      reject = no;
    });
    return { promise, resolve, reject };
  }

  static resolve(value) {
    return value instanceof SettlingPromise ? value : new SettlingPromise((resolve) => resolve(value));
  }

  static reject(reason) {
    return new SettlingPromise((_, reject) => reject(reason));
  }

  static try(act, ...args) {
    return new SettlingPromise((resolve) => resolve(act(...args)));
  }

  // Calls `each(promise, index, finish)` for every promise, or `empty` without promises.
  static #gather(values, each) {
    return new SettlingPromise((resolve, reject) => {
      const gathered = [];
      let open = 1;
      const finish = (index, value) => {
        gathered[index] = value;
        open -= 1;
        if (open === 0) resolve(gathered);
      };
      let index = 0;
      for (const value of values) {
        open += 1;
        each(SettlingPromise.resolve(value), index, finish, reject);
        index += 1;
      }
      open -= 1;
      if (open === 0) resolve(gathered);
    });
  }

  static all(values) {
    return SettlingPromise.#gather(values, (promise, index, finish, reject) => {
      promise.then((value) => finish(index, value), reject);
    });
  }

  static allSettled(values) {
    return SettlingPromise.#gather(values, (promise, index, finish) => {
      promise.then(
        (value) => finish(index, { status: "fulfilled", value }),
        (reason) => finish(index, { status: "rejected", reason }),
      );
    });
  }

  static race(values) {
    return new SettlingPromise((resolve, reject) => {
      for (const value of values) SettlingPromise.resolve(value).then(resolve, reject);
    });
  }

  static any(values) {
    // The inverse: the first fulfilled promise fulfils it, and only all rejections together reject it.
    const turned = SettlingPromise.#gather(values, (promise, index, finish, reject) => {
      promise.then(reject, (reason) => finish(index, reason));
    });
    return turned.then(
      (reasons) => {
        throw new AggregateError(reasons, "every promise was rejected");
      },
      (value) => value,
    );
  }

  /** The value of a promise after the queue has run; throws its reason. */
  static now(promise) {
    drain();
    if (promise.#state === FULFILLED) return promise.#value;
    if (promise.#state === REJECTED) throw promise.#value;
    throw new Error("evaluate returned a promise that never settles");
  }
}

globalThis.Promise = SettlingPromise;
globalThis.queueMicrotask = (act) => {
  queue.push(act);
};

/** `then(value of call())`, or `failed(reason)`. */
export function settle(call, then, failed) {
  let returned;
  try {
    const given = call();
    const waits = typeof given === "object" && given !== null && typeof given.then === "function";
    returned = then(waits ? SettlingPromise.now(SettlingPromise.resolve(given)) : given);
  } catch (thrown) {
    return failed(thrown);
  }
  return returned;
}

settle.all = (values, each) => values.map(each);

settle.u64 = (number) => Math.trunc(Number(number));
