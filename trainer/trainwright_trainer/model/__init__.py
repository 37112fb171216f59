"""Models from ``transformers`` configurations, without any download."""
