// Package migrations is the database schema, one folder of numbered files per
// dialect with the same file names in both. Files are only ever added: what has
// been released is never edited.
package migrations

import "embed"

// Files holds the folders sqlite and postgres.
//
//go:embed sqlite/*.sql postgres/*.sql
var Files embed.FS
