"""HTTP and gRPC service, and its client."""
