/* The timeline: a row a stream, drawn from bins at any zoom and from single events where few. */
