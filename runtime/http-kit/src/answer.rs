//! What a handler answers, and what the OpenAPI document says of it: both from the type that it returns.

use std::marker::PhantomData;

use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::{Ref, RefOr, Schema};

use crate::problem::Problem;

/// A JSON body, with the status that it is sent with.
#[derive(Clone, Debug)]
pub struct Answer<T, const STATUS: u16 = 200>(pub T);

impl<T: Serialize, const STATUS: u16> IntoResponse for Answer<T, STATUS> {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(STATUS).unwrap_or(StatusCode::OK);
        (status, Json(self.0)).into_response()
    }
}

/// One of two answers.
#[derive(Clone, Debug)]
pub enum Either<A, B> {
    /// The first.
    One(A),
    /// The second.
    Other(B),
}

impl<A: IntoResponse, B: IntoResponse> IntoResponse for Either<A, B> {
    fn into_response(self) -> Response {
        match self {
            Self::One(answer) => answer.into_response(),
            Self::Other(answer) => answer.into_response(),
        }
    }
}

/// A JSON body that is too large to be held as a whole: it is written part by part, and reads as `T`.
#[derive(Debug)]
pub struct Streamed<T>(Response, PhantomData<fn() -> T>);

impl<T> Streamed<T> {
    /// An answer that writes a `T`.
    pub fn new(response: Response) -> Self {
        Self(response, PhantomData)
    }
}

impl<T> IntoResponse for Streamed<T> {
    fn into_response(self) -> Response {
        self.0
    }
}

/// What the document says of one answer.
#[derive(Clone, Debug)]
pub struct Said {
    /// Of success.
    pub status: u16,
    /// Of the body.
    pub schema: RefOr<Schema>,
    /// What the schema refers to by name.
    pub named: Vec<(String, RefOr<Schema>)>,
}

impl Said {
    pub(crate) fn of<T: ToSchema>(status: u16) -> Self {
        let mut named = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut named);
        Self { status, schema: Ref::from_schema_name(T::name()).into(), named }
    }
}

/// What a handler returns.
pub trait Answers {
    /// What it says of itself; nothing where its type does not tell.
    fn said() -> Vec<Said> {
        Vec::new()
    }
}

impl<T: ToSchema, const STATUS: u16> Answers for Answer<T, STATUS> {
    fn said() -> Vec<Said> {
        vec![Said::of::<T>(STATUS)]
    }
}

impl<T: ToSchema> Answers for Streamed<T> {
    fn said() -> Vec<Said> {
        vec![Said::of::<T>(200)]
    }
}

impl<A: Answers, B: Answers> Answers for Either<A, B> {
    fn said() -> Vec<Said> {
        [A::said(), B::said()].concat()
    }
}

impl<A: Answers> Answers for Result<A, Problem> {
    fn said() -> Vec<Said> {
        A::said()
    }
}

// What is said of these stands in the description of the operation.
impl Answers for Response {}
impl Answers for StatusCode {}
impl Answers for Problem {}
impl Answers for Json<Value> {}
impl Answers for (StatusCode, Json<Value>) {}
impl Answers for (HeaderMap, Json<Value>) {}
impl Answers for (HeaderMap, Vec<u8>) {}

/// A function that handles requests; `Args` are its parameters.
pub trait Handles<Args> {
    /// What it returns.
    type Answer: Answers;
}

macro_rules! handles {
    ($($arg:ident)*) => {
        impl<F, Answer, $($arg),*> Handles<($($arg,)*)> for F
        where
            F: AsyncFn($($arg),*) -> Answer,
            Answer: Answers,
        {
            type Answer = Answer;
        }
    };
}

handles!();
handles!(A);
handles!(A B);
handles!(A B C);
handles!(A B C D);
handles!(A B C D E);
handles!(A B C D E G);
