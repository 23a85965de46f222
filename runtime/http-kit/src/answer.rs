//! Responses of handlers. The return type also gives the response schemas of the OpenAPI document.

use std::marker::PhantomData;

use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::{Ref, RefOr, Schema};

use crate::problem::Problem;

/// A JSON body with its status.
#[derive(Clone, Debug)]
pub struct Answer<T, const STATUS: u16 = 200>(pub T);

impl<T: Serialize, const STATUS: u16> IntoResponse for Answer<T, STATUS> {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(STATUS).unwrap_or(StatusCode::OK);
        (status, Json(self.0)).into_response()
    }
}

/// One of two responses.
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

/// A JSON body of the schema `T` that is streamed, because it is too large to be held in memory.
#[derive(Debug)]
pub struct Streamed<T>(Response, PhantomData<fn() -> T>);

impl<T> Streamed<T> {
    /// Wraps a response whose body has the schema `T`.
    pub fn new(response: Response) -> Self {
        Self(response, PhantomData)
    }
}

impl<T> IntoResponse for Streamed<T> {
    fn into_response(self) -> Response {
        self.0
    }
}

/// One response of success in the OpenAPI document.
#[derive(Clone, Debug)]
pub struct ResponseSpec {
    /// Status.
    pub status: u16,
    /// Schema of the body.
    pub schema: RefOr<Schema>,
    /// Named schemas that `schema` refers to.
    pub named: Vec<(String, RefOr<Schema>)>,
}

impl ResponseSpec {
    pub(crate) fn of<T: ToSchema>(status: u16) -> Self {
        let mut named = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut named);
        Self { status, schema: Ref::from_schema_name(T::name()).into(), named }
    }
}

/// A return type of handlers.
pub trait DescribedAnswer {
    /// Its responses; empty when the operation describes them.
    fn response_specs() -> Vec<ResponseSpec> {
        Vec::new()
    }
}

impl<T: ToSchema, const STATUS: u16> DescribedAnswer for Answer<T, STATUS> {
    fn response_specs() -> Vec<ResponseSpec> {
        vec![ResponseSpec::of::<T>(STATUS)]
    }
}

impl<T: ToSchema> DescribedAnswer for Streamed<T> {
    fn response_specs() -> Vec<ResponseSpec> {
        vec![ResponseSpec::of::<T>(200)]
    }
}

impl<A: DescribedAnswer, B: DescribedAnswer> DescribedAnswer for Either<A, B> {
    fn response_specs() -> Vec<ResponseSpec> {
        [A::response_specs(), B::response_specs()].concat()
    }
}

impl<A: DescribedAnswer> DescribedAnswer for Result<A, Problem> {
    fn response_specs() -> Vec<ResponseSpec> {
        A::response_specs()
    }
}

// Operations describe these themselves.
impl DescribedAnswer for Response {}
impl DescribedAnswer for StatusCode {}
impl DescribedAnswer for Problem {}
impl DescribedAnswer for (HeaderMap, Vec<u8>) {}

/// A handler function; `Args` are its parameters.
pub trait DescribedHandler<Args> {
    /// Its return type.
    type Answer: DescribedAnswer;
}

macro_rules! handles {
    ($($arg:ident)*) => {
        impl<F, Answer, $($arg),*> DescribedHandler<($($arg,)*)> for F
        where
            F: AsyncFn($($arg),*) -> Answer,
            Answer: DescribedAnswer,
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
