#include "client/output/table.h"

#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

TEST(TableTest, AlignsColumnsAndLeavesNoTrailingBlanks) {
  Table table({Left("worker"), Right("peak"), Left("note")});
  table.AddRow({"w0", "1.00 MiB", "retains"});
  table.AddRow({"long-name", "7 B", ""});
  EXPECT_EQ(table.Render(),
            "worker         peak  note\n"
            "w0         1.00 MiB  retains\n"
            "long-name       7 B\n");
}

TEST(TableTest, TotalsAreSetOffByARule) {
  Table table({Left("worker"), Right("bytes")});
  table.AddRow({"w0", "10"});
  table.AddTotal({"total", "10"});
  EXPECT_EQ(table.Render(),
            "worker  bytes\n"
            "w0         10\n"
            "-------------\n"
            "total      10\n");
}

TEST(TableTest, CountsCharactersNotBytes) {
  Table table({Left("name"), Left("state")});
  table.AddRow({"größe", "QUEUED"});
  table.AddRow({"tiny", "QUEUED"});
  EXPECT_EQ(table.Render(),
            "name   state\n"
            "größe  QUEUED\n"
            "tiny   QUEUED\n");
}

TEST(TableTest, MissingCellsStayBlank) {
  Table table({Left("a"), Left("b")});
  table.AddRow({"1"});
  EXPECT_EQ(table.Render(), "a  b\n1\n");
}

}  // namespace
}  // namespace stagecoach::client
