"""REST: files of jobs, trees and code."""
