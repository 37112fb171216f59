"""Train job."""
