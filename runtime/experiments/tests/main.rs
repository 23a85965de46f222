//! Tests of comparisons, verdicts and gates.
