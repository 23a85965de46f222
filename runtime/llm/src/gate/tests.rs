//! Tests of the state machine by example and by properties.

use proptest::prelude::*;

use super::*;

const FINE: RequestEnd = RequestEnd::Otherwise { tokens: 0 };

fn limited(gate: &mut Gate, started: Seconds, now: Seconds) {
    gate.end(started, now, RequestEnd::Limited { retry_after: None });
}

fn rate(gate: &Gate) -> f64 {
    gate.bucket.as_ref().unwrap().rate
}

/// `n` requests over `seconds`, all answered.
fn run(gate: &mut Gate, from: Seconds, seconds: f64, n: usize) {
    for at in 0..n {
        let now = from + seconds * at as f64 / n as f64;
        assert_eq!(gate.start(now), Decision::Start);
        gate.end(now, now, FINE);
    }
}

#[test]
fn before_a_429_only_the_number_in_flight_counts() {
    let mut gate = Gate::new(3);
    for _ in 0..3 {
        assert_eq!(gate.start(1.0), Decision::Start);
    }
    assert_eq!(gate.start(1.0), Decision::WhenFree);
    gate.end(1.0, 1.0, FINE);
    assert_eq!(gate.start(1.0), Decision::Start);
    gate.set_max_in_flight(5);
    assert_eq!(gate.start(1.0), Decision::Start);
    let mut gate = Gate::new(8);
    run(&mut gate, 0.0, 1.0, 1000);
}

#[test]
fn the_first_429_starts_at_half_of_the_rate_reached_and_not_below_5() {
    let mut gate = Gate::new(8);
    run(&mut gate, 0.0, 9.9, 400);
    assert_eq!(gate.start(10.0), Decision::Start);
    limited(&mut gate, 10.0, 10.0);
    assert!((rate(&gate) - 20.05).abs() < 0.2, "{}", rate(&gate));
    let mut slow = Gate::new(8);
    assert_eq!(slow.start(0.0), Decision::Start);
    limited(&mut slow, 0.0, 1.0);
    assert!((rate(&slow) - 5.0).abs() < f64::EPSILON);
    let Decision::At(at) = slow.start(1.0) else {
        panic!("an empty bucket let a request go");
    };
    assert!((at - 1.2).abs() < 0.001, "{at}");
    assert_eq!(slow.start(at), Decision::Start);
}

#[test]
fn requests_sent_before_a_reduction_do_not_reduce_the_rate_again_within_5_seconds() {
    let mut gate = Gate::new(8);
    for _ in 0..5 {
        assert_eq!(gate.start(0.0), Decision::Start);
    }
    limited(&mut gate, 0.0, 1.0);
    limited(&mut gate, 0.0, 2.0);
    assert!(5.0 <= rate(&gate));
    assert_eq!(gate.start(3.0), Decision::Start);
    limited(&mut gate, 3.0, 3.5);
    assert!(rate(&gate) < 3.0, "a request after the cut cuts");
    let before = rate(&gate);
    limited(&mut gate, 0.0, 8.6);
    assert!(rate(&gate) < before * 0.6, "after 5 s old ones cut too");
}

#[test]
fn a_rate_grows_to_eight_times_its_start_and_a_silent_minute_removes_it() {
    let mut gate = Gate::new(8);
    assert_eq!(gate.start(0.0), Decision::Start);
    limited(&mut gate, 0.0, 0.0);
    let mut now = 0.0;
    while now < 100.0 {
        now += 10.0;
        assert_eq!(gate.start(now), Decision::Start);
        gate.end(now, now, FINE);
    }
    let grown = 5.0 * std::f64::consts::E;
    assert!((rate(&gate) - grown).abs() < 0.01, "{}", rate(&gate));
    while now < 1000.0 {
        now += 10.0;
        assert_eq!(gate.start(now), Decision::Start);
        gate.end(now, now, FINE);
    }
    assert!((rate(&gate) - 40.0).abs() < 1e-9);
    assert_eq!(gate.start(now + 60.0), Decision::Start);
    assert!(gate.bucket.is_none());
}

#[test]
fn retry_after_closes_the_gate_for_everyone() {
    let mut gate = Gate::new(8);
    assert_eq!(gate.start(0.0), Decision::Start);
    assert_eq!(gate.start(0.0), Decision::Start);
    let retry_after = Some(Duration::from_secs(30));
    gate.end(0.0, 1.0, RequestEnd::Limited { retry_after });
    assert_eq!(gate.start(2.0), Decision::At(31.0));
    let retry_after = Some(Duration::from_secs(5));
    gate.end(0.0, 3.0, RequestEnd::Limited { retry_after });
    assert_eq!(gate.start(30.9), Decision::At(31.0), "never opens earlier");
    assert_eq!(gate.start(31.0), Decision::Start);
}

#[test]
fn the_remaining_requests_of_the_provider_limit_the_bucket() {
    let left = |n, reset| Quota { n, reset: Some(Duration::from_secs(reset)) };
    let mut gate = Gate::new(8);
    assert_eq!(gate.start(0.0), Decision::Start);
    let remaining = Remaining { requests: Some(left(1, 20)), tokens: None };
    gate.remaining(0.0, remaining);
    assert_eq!(gate.start(0.0), Decision::Start);
    assert_eq!(gate.start(0.0), Decision::Start, "no bucket, nothing to cap");
    gate.end(0.0, 0.0, RequestEnd::Otherwise { tokens: 100 });
    limited(&mut gate, 0.0, 1.0);
    gate.remaining(1.0, remaining);
    assert_eq!(gate.start(2.0), Decision::Start);
    assert_eq!(gate.start(3.0), Decision::At(21.0));
    assert_eq!(gate.start(21.0), Decision::Start);
    let tokens = Remaining { requests: None, tokens: Some(left(199, 10)) };
    gate.remaining(22.0, tokens);
    assert_eq!(gate.start(23.0), Decision::Start, "enough for one request");
    assert_eq!(gate.start(24.0), Decision::At(32.0));
}

#[derive(Clone, Debug)]
enum Event {
    Start,
    Fine,
    Limited(Option<u16>),
    Quota(u8, u8),
}

fn event() -> impl Strategy<Value = (f64, Event)> {
    let events = prop_oneof![
        6 => Just(Event::Start),
        4 => Just(Event::Fine),
        1 => prop::option::of(0..900_u16).prop_map(Event::Limited),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(n, reset)| Event::Quota(n, reset)),
    ];
    (0.0..3.0_f64, events)
}

proptest! {
    #[test]
    fn the_limits_hold_for_any_sequence_of_events(
        max in 1..10_usize,
        events in prop::collection::vec(event(), 0..300),
    ) {
        let mut gate = Gate::new(max);
        let mut now = 0.0;
        let mut running = VecDeque::new();
        for (passed, event) in events {
            now += passed;
            match event {
                Event::Start => match gate.start(now) {
                    Decision::Start => {
                        prop_assert!(gate.closed_until <= now);
                        running.push_back(now);
                    }
                    // Waiting until then, with all others gone, is enough; a gate never blocks for ever.
                    Decision::At(at) => prop_assert!(now < at && at < now + 901.0),
                    Decision::WhenFree => prop_assert_eq!(running.len(), max),
                },
                Event::Fine => if let Some(started) = running.pop_front() {
                    gate.end(started, now, RequestEnd::Otherwise { tokens: 50 });
                },
                Event::Limited(wait) => if let Some(started) = running.pop_front() {
                    let retry_after = wait.map(|wait| Duration::from_secs(wait.into()));
                    gate.end(started, now, RequestEnd::Limited { retry_after });
                },
                Event::Quota(n, reset) => {
                    let reset = Some(Duration::from_secs(reset.into()));
                    let requests = Some(Quota { n: n.into(), reset });
                    gate.remaining(now, Remaining { requests, tokens: None });
                }
            }
            prop_assert_eq!(gate.in_flight, running.len());
            prop_assert!(running.len() <= max);
            if let Some(bucket) = &gate.bucket {
                prop_assert!((MIN_RATE..=bucket.start_rate * MAX_GROWTH).contains(&bucket.rate));
                prop_assert!((-1e-9..=bucket.rate.max(1.0) + 1e-9).contains(&bucket.tokens));
            }
        }
    }

    /// Over any stretch of time, no more requests start than the highest rate and one burst allow.
    #[test]
    fn a_bucket_does_not_exceed_its_rate(waits in prop::collection::vec(0.0..0.5_f64, 1..400)) {
        let mut gate = Gate::new(8);
        prop_assert_eq!(gate.start(0.0), Decision::Start);
        limited(&mut gate, 0.0, 0.0);
        let mut now = 0.0;
        let mut n_started = 0.0;
        for wait in waits {
            now += wait;
            while gate.start(now) == Decision::Start {
                n_started += 1.0;
                gate.end(now, now, FINE);
            }
            let grown = 5.0 * ((GROWTH * now).exp() - 1.0) / GROWTH;
            prop_assert!(n_started <= grown + 1e-6, "{} over {}", n_started, grown);
        }
    }
}
