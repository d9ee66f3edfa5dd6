"""What a seated pod receives."""
