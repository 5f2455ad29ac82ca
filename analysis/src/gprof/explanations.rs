//! Explanations of the tables, which `-b` omits.

pub(super) const FLAT: &str = "
Columns of the flat profile:
  % time       part of the time of all functions
  cumulative   time of this function and of those above it
  self         time of this function without its callees; rows are sorted by it
  calls        number of calls; empty if unknown
  self/call    mean time of a call, without callees
  total/call   mean time of a call, with callees
  name         name of the function

A time of few samples is inexact: with n samples, the error is about the square root of n.
";

pub(super) const CALL_GRAPH: &str = "
Each entry is about the function with an index in its left column. Lines above it
are its callers, lines below are its callees.

Columns of the function:
  index        number of the entry, which follows each mention of the function's name
  % time       part of the total time, with callees; entries are sorted by it
  self         time without callees
  children     time of callees
  called       number of calls by others, and, after +, by itself
  name         name, and the number of the cycle to which the function belongs

Columns of callers and callees:
  self         time of the callee for calls by this caller, without its callees
  children     time of the callee's callees for these calls
  called       number of these calls, and, after /, of all calls of the callee

Times of callers and callees are estimates: the time of a function, divided among its
callers by the number of calls. <spontaneous>: the callers are unknown.

A cycle is a set of functions that call each other. Its entry has their total time, and
their calls from outside and, after +, from inside. Its lines are the functions.
";
