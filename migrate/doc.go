// Package migrate carries legacy MySQL booleans to today's columns, and keeps
// programs right before, during and after the move.
//
// Old schemas hold a boolean as enum('N','Y'), enum('0','1'), char(1), bit(1)
// and the like. GORM and the MySQL driver send a Go bool as the integer 1 or 0,
// and MySQL reads an integer that is given to an ENUM as the 1-based index of a
// label, so that true silently becomes 'N'. This package has two parts:
//
//   - the codec, [LegacyBools], a GORM plugin that encodes and decodes every
//     bool by what its column really is, and a guard that keeps AutoMigrate
//     away from such columns;
//   - the migration itself, which moves a legacy column to tinyint(1) without
//     a lost, inverted or invented value.
//
// On any dialect but MySQL the codec registers nothing and costs nothing.
//
// [Adopt] is for another legacy: it moves a table whose keys the database numbers,
// on Postgres, MySQL, MariaDB or SQLite, to snowflake keys.
package migrate
