"""Guard `spool`: redeliver outbound feeds that the partner never received."""
