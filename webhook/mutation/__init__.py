"""What a seated worker pod receives: edits, one module per concern, and the fold that turns them
into a JSON Patch.
"""
