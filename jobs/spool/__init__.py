"""Jobs of the spool guard: report, redeliver, verify; their schedule and sensors."""
