"""The analytic memory model."""
